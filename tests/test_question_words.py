"""The question words of each language: what questions ask for, and what answers them."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import kvstore
from kvstore.answering.answer_types import detect_answer_type
from kvstore.answering.question_dates import find_date_words
from kvstore.retrieval.overview import is_overview_question, parse_summary_request
from kvstore.text.languages import detect_question_language
from kvstore.text.question_words import FOLDER, build_count_pattern, load_question_words

#: A question, its kind, a text that answers it, and one that does not.
QUESTIONS = {
    "german": [
        ("Wann wurde die Brücke gebaut?", "time", "Sie wurde im März 1871 gebaut.", "Die Brücke ist aus Stein."),
        ("Wie lange ist die Frist?", "duration", "Sie beträgt drei Monate.", "Die Frist beginnt mit dem Antrag."),
        ("Was kostet der Ausweis?", "money", "Er kostet 12 Euro im Jahr.", "Der Ausweis ist grün."),
        ("Was kostet der Umbau?", "money", "Er kostet 30 Mio. Euro.", "Der Umbau ist fertig."),
        ("Wie viele Hühner gibt es?", "number", "Es sind zwölf Hühner.", "Die Hühner sind im Stall."),
        ("Wer leitet die Bücherei?", "person", "Es ist Frau Solms.", "Sie wird gut geleitet."),
        ("Warum schloss die Hütte?", "reason", "Sie schloss, weil Gas billiger war.", "Die Hütte schloss."),
    ],
    "french": [
        ("En quelle année le pont a-t-il été construit ?", "time", "Il date de 1871.", "Le pont est en pierre."),
        ("Combien de temps dure le préavis ?", "duration", "Il dure deux mois.", "Le préavis est écrit."),
        ("Combien coûte la carte ?", "money", "Elle coûte 15 euros.", "La carte est verte."),
        ("Combien coûte le pont ?", "money", "Il coûte 30 millions d'euros.", "Le pont est en pierre."),
        ("Qui dirige la médiathèque ?", "person", "C’est Claire Desforges.", "Elle est bien dirigée."),
        ("Pourquoi a-t-elle fermé ?", "reason", "Parce que le gaz coûtait moins.", "Elle a fermé en hiver."),
    ],
    "spanish": [
        ("¿Cuándo se construyó el puente?", "time", "Se construyó en marzo.", "El puente es de piedra."),
        ("¿Cuánto cuesta el carné?", "money", "Cuesta doce euros.", "El carné es verde."),
        ("¿Cuánto cuesta el puente?", "money", "Cuesta 5 millones de dólares.", "El puente es de piedra."),
        ("¿Dónde nació la poeta?", "place", "La poeta nació en Granada.", "La poeta nació en una granja."),
    ],
    "portuguese": [
        ("Em que ano foi construída a ponte?", "time", "Foi construída em 1871.", "A ponte é de pedra."),
        ("Quantas galinhas há?", "number", "Há doze galinhas.", "As galinhas são brancas."),
        ("Por que a fábrica fechou?", "reason", "Porque o gás era mais barato.", "A fábrica fechou."),
    ],
    "italian": [
        ("In che anno fu costruito il ponte?", "time", "Fu costruito nel 1871.", "Il ponte è di pietra."),
        ("Quanto costa la tessera?", "money", "Costa dodici euro.", "La tessera è verde."),
        ("Chi dirige la biblioteca?", "person", "La dirige Chiara Monti.", "È diretta bene."),
    ],
    "dutch": [
        ("Wanneer is de brug gebouwd?", "time", "In maart van dat jaar.", "De brug is van steen."),
        ("Hoeveel kost de kaart?", "money", "De kaart kost 12 euro.", "De kaart is groen."),
        ("Waarom sloot de fabriek?", "reason", "Omdat gas goedkoper was.", "De fabriek sloot."),
    ],
    "russian": [
        ("В каком году построили мост?", "time", "Мост построили в 1871 году.", "Мост каменный."),
        ("Сколько стоит билет?", "money", "Билет стоит сто рублей.", "Билет зелёный."),
        ("Кто возглавляет библиотеку?", "person", "Её возглавляет Анна Соколова.", "Её хорошо возглавляют."),
    ],
    "polish": [
        ("Kiedy zbudowano most?", "time", "Zbudowano go w marcu.", "Most jest z kamienia."),
        ("Ile kosztuje karta?", "money", "Karta kosztuje 20 złotych.", "Karta jest zielona."),
        ("Gdzie urodziła się poetka?", "place", "Poetka urodziła się w Toruniu.", "Poetka urodziła się na wsi."),
    ],
    "swedish": [
        ("När byggdes bron?", "time", "Bron byggdes i maj.", "Bron är av sten."),
        ("Vad kostar kortet?", "money", "Kortet kostar tolv kronor.", "Kortet är grönt."),
        ("Varför stängde fabriken?", "reason", "Den stängde eftersom gasen var billigare.", "Fabriken stängde."),
    ],
    "turkish": [
        ("Köprü ne zaman yapıldı?", "time", "Köprü mart ayında yapıldı.", "Köprü taştan."),
        ("Kart kaç lira?", "money", "Kart elli lira.", "Kart yeşil."),
        ("Fabrika neden kapandı?", "reason", "Çünkü gaz daha ucuzdu.", "Fabrika kapandı."),
    ],
    "arabic": [
        ("متى تم بناء الجسر؟", "time", "تم بناؤه في مارس.", "الجسر من الحجر."),
        ("لماذا أغلق المصنع؟", "reason", "أغلق بسبب السعر.", "أغلق المصنع."),
        ("كم عدد الدجاجات؟", "number", "هناك اثنتا عشرة دجاجة، ثلاث منها بيضاء.", "الدجاج في الحظيرة."),
    ],
    "chinese": [
        ("桥是什么时候建成的？", "time", "桥建成于1871年。", "桥是石头做的。"),
        ("门票多少钱？", "money", "门票十二元。", "门票是绿色的。"),
        ("工厂为什么关闭？", "reason", "因为天然气更便宜。", "工厂关闭了。"),
    ],
    "japanese": [
        ("橋はいつ建てられましたか？", "time", "橋は1871年に建てられました。", "橋は石でできています。"),
        ("カードはいくらですか？", "money", "カードは千円です。", "カードは緑色です。"),
        ("工場はなぜ閉鎖されましたか？", "reason", "ガスが安かったためです。", "工場は閉鎖されました。"),
    ],
    "greek": [
        ("Πότε χτίστηκε η γέφυρα;", "time", "Χτίστηκε τον Μάρτιο.", "Η γέφυρα είναι πέτρινη."),
        ("Πόσο κοστίζει η κάρτα;", "money", "Κοστίζει 12 ευρώ.", "Η κάρτα είναι πράσινη."),
        ("Ποιος διευθύνει τη βιβλιοθήκη;", "person", "Τη διευθύνει η Άννα Ζήση.", "Διευθύνεται καλά."),
        ("Γιατί έκλεισε το εργοστάσιο;", "reason", "Επειδή το αέριο ήταν φθηνό.", "Το εργοστάσιο έκλεισε."),
    ],
    "ukrainian": [
        ("Коли збудували міст?", "time", "Його збудували в березні.", "Міст кам'яний."),
        ("Скільки коштує квиток?", "money", "Квиток коштує 90 грн.", "Квиток зелений."),
        ("Хто очолює бібліотеку?", "person", "Її очолює Леся Коваль.", "Її добре очолюють."),
        ("Чому закрили завод?", "reason", "Бо газ був дешевший.", "Завод закрили."),
    ],
    "korean": [
        ("다리는 언제 지었나요?", "time", "1871년에 지었습니다.", "다리가 튼튼합니다."),
        ("회원증은 얼마인가요?", "money", "5,000원입니다.", "초록색입니다."),
        ("공장은 왜 문을 닫았나요?", "reason", "가스가 비쌌기 때문입니다.", "공장이 닫혔습니다."),
    ],
    "hindi": [
        ("पुल कब बना?", "time", "पुल मार्च में बना।", "पुल पत्थर का है।"),
        ("कार्ड कितने का है?", "money", "कार्ड ₹80 का है।", "कार्ड हरा है।"),
        ("कारखाना क्यों बंद हुआ?", "reason", "क्योंकि गैस सस्ती थी।", "कारखाना बंद हुआ।"),
    ],
    "czech": [
        ("Kdy byl most postaven?", "time", "Postavili ho v březnu.", "Most je z kamene."),
        ("Kolik stojí průkazka?", "money", "Průkazka stojí 90 Kč.", "Průkazka je zelená."),
        ("Kdo vede knihovnu?", "person", "Vede ji Žaneta Malá.", "Vede se jí dobře."),
        ("Proč továrnu zavřeli?", "reason", "Protože plyn byl levnější.", "Továrnu zavřeli."),
    ],
    "danish": [
        ("Hvornår blev broen bygget?", "time", "Den blev bygget i marts.", "Broen er af sten."),
        ("Hvad koster kortet?", "money", "Kortet koster tolv kroner.", "Kortet er grønt."),
        ("Hvem leder biblioteket?", "person", "Det ledes af Søren Holm.", "Det ledes godt."),
        ("Hvorfor lukkede fabrikken?", "reason", "Fordi gassen var billigere.", "Fabrikken lukkede."),
    ],
    "finnish": [
        ("Milloin silta rakennettiin?", "time", "Se rakennettiin maaliskuussa.", "Silta on kivestä."),
        ("Paljonko kortti maksaa?", "money", "Kortti maksaa 12 euroa.", "Kortti on vihreä."),
        ("Kuka johtaa kirjastoa?", "person", "Sitä johtaa Änne Salo.", "Sitä johdetaan hyvin."),
        ("Miksi tehdas suljettiin?", "reason", "Koska kaasu oli halvempaa.", "Tehdas suljettiin."),
    ],
    "romanian": [
        ("Când a fost construit podul?", "time", "A fost construit în martie.", "Podul este de piatră."),
        ("Cât costă permisul?", "money", "Costă 20 de lei.", "Permisul este verde."),
        ("Cine conduce biblioteca?", "person", "O conduce Ștefania Rusu.", "Este bine condusă."),
        ("De ce s-a închis fabrica?", "reason", "Pentru că gazul era mai ieftin.", "Fabrica s-a închis."),
    ],
}

#: Everyday questions, in the same form: other tenses, percentages, intervals, clock times, and numbers of articles.
EVERYDAY_QUESTIONS = {
    "spanish": [
        ("¿Cuál es el número de teléfono?", "telephone number", "Es el 976 558 812.", "Es el 31."),
        ("¿Cuáles son las tarifas?", "money", "Son 14,00 €.", "Las tarifas son altas."),
        ("¿Cuánto costaron las sillas?", "money", "Costaron 12.400 euros.", "Las sillas del artículo 7 son azules."),
        ("¿Cuánto pagaba un jubilado?", "money", "Pagaba la mitad, 15,50.", "Los jubilados eran 15."),
        ("¿Qué parte de la cuota paga un menor?", "percentage", "El 15 por ciento.", "Los menores pagan la cuota."),
        ("¿Cuándo abre el bar?", "time", "Abre a las nueve.", "Abre a las familias."),
        ("¿Cuándo se puede pescar?", "time", "Del 20 de octubre al 15 de abril.", "Según el artículo 7."),
        ("¿Cada cuánto se reúne la junta?", "frequency", "Cada mes.", "La junta se reúne."),
        ("¿Con cuánta antelación hay que avisar?", "duration", "Con quince (15) días.", "Hay que avisar."),
        ("¿Cuál es el plazo máximo?", "duration", "Treinta días.", "Sin demora."),
        ("¿Por cuánto tiempo se elige la junta?", "duration", "Por cuatro años.", "Se elige en el artículo 4."),
        ("¿Cuántos socios hacen falta?", "number", "Hacen falta diez.", "Véase el artículo 9."),
        ("¿De cuánto es la multa?", "money", "Es de 60 a 120 euros.", "La multa es alta."),
        ("¿A cuánto asciende la fianza?", "money", "Asciende a 1.200,50 €.", "La fianza se paga en mayo."),
        ("¿Cuánto gana el conserje?", "money", "Gana 840 euros.", "El conserje trabaja de noche."),
        ("¿Cuál es el correo de la secretaría?", "e-mail address", "Es sec@example.org.", "El correo llega tarde."),
        ("¿En qué aula es la clase?", "place", "La clase es en el Aula Nebrija.", "La clase es larga."),
    ],
    "portuguese": [
        ("Qual é o número de telefone?", "telephone number", "É o 219 765 588.", "É o 31."),
        ("Quais são os preços?", "money", "São 14,00 €.", "Os preços são altos."),
        ("Quanto tempo tenho?", "duration", "Tem 15 dias.", "Não há tempo."),
        ("Quanto se paga pela inscrição?", "money", "São 49,00 €.", "A inscrição é em junho."),
        ("A que horas abre?", "time of day", "Abre às nove.", "Abre sempre."),
        ("Qual é o prazo de entrega?", "duration", "Dois meses.", "Ver artigo 2."),
    ],
    "italian": [
        ("Perché chiuse il rifugio?", "reason", "Chiuse perché il gas costava meno.", "Il rifugio chiuse."),
        ("Qual è il numero di telefono?", "telephone number", "È il 0463 558812.", "È il 31."),
        ("Quali sono i prezzi?", "money", "Sono 14,00 €.", "I prezzi sono alti."),
        ("Quando è aperto?", "time", "Tutti i giorni.", "Con la pioggia."),
        ("Quanto costavano i biglietti?", "money", "Costavano 12 euro.", "I biglietti erano 12."),
        ("Quanto si deve pagare per la tessera?", "money", "La tessera è gratuita.", "La tessera è verde."),
        ("A che ora chiude?", "time of day", "Chiude alle 18.", "Chiude sempre."),
        ("Ogni quanto si riunisce il consiglio?", "frequency", "Ogni mese.", "Si riunisce."),
    ],
    "french": [
        ("Quels sont les tarifs ?", "money", "14,00 €.", "Les tarifs sont élevés."),
        ("Quand est-ce ouvert ?", "time", "Tous les jours.", "Par beau temps."),
        ("Combien ça a coûté ?", "money", "Cela a coûté 10 000 €.", "C'était cher."),
        ("Combien faut-il payer ?", "money", "Il faut payer 49,00 €.", "Il faut payer."),
        ("Combien de temps avant faut-il payer ?", "duration", "Trois semaines.", "Avant la fête."),
        ("À quelle heure ferme le bureau ?", "time of day", "Il ferme à 18h30.", "Il ferme tôt."),
        ("Quelle part du loyer est remboursée ?", "percentage", "La moitié.", "Le loyer."),
        ("Combien de livres peut-on emprunter ?", "number", "On peut emprunter 15 livres.", "Les livres sont neufs."),
        ("Que dois-je payer pour ma carte ?", "money", "Elle coûte 1 200,50 €.", "On peut emprunter 15 livres."),
        ("Avant quelle date faut-il payer ?", "deadline", "Avant le 3 mai.", "Il faut payer."),
    ],
    "german": [
        ("Um wie viel Uhr gibt es Essen?", "time of day", "Um 19 Uhr.", "Um diese Uhr."),
        ("Wann beginnt es?", "time", "Um halb acht.", "Im Saal."),
        ("Was sind die Preise?", "money", "14,00 €.", "Die Preise sind hoch."),
        (
            "Wie viel hat das neue Dach der Halle gekostet?",
            "money",
            "Es hat 12.400 Euro gekostet.",
            "Das Dach hat 40 Jahre gehalten.",
        ),
        ("Wie viele Personen zahlen Beitrag?", "number", "Es sind 40.", "Nach § 4 Abs. 2."),
        ("Welcher Anteil wird erstattet?", "percentage", "80 Prozent.", "Der Anteil."),
        ("Wann beginnt das Fest?", "time", "Um 14 Uhr.", "Im Saal."),
        ("Wie hoch ist der Jahresbeitrag?", "money", "84 €.", "Er ist hoch."),
        ("Wie oft tagt der Vorstand?", "frequency", "Monatlich.", "Der Vorstand tagt."),
        ("In welchem Jahr wurde die Brücke gebaut?", "time", "1871.", "Die Brücke."),
    ],
    "dutch": [
        ("Hoe laat is de vergadering?", "time of day", "Om half acht.", "In de zaal."),
        ("Wat zijn de tarieven?", "money", "14,00.", "De tarieven zijn hoog."),
        ("Wat heeft het dak gekost?", "money", "Het kostte 12.400 euro.", "Het dak is nieuw."),
        ("Hoeveel moet ik betalen?", "money", "U betaalt 49,00.", "U betaalt."),
        ("Hoeveel leden betalen contributie?", "number", "Dat zijn er twaalf.", "Dat staat in artikel 12."),
        ("Hoe laat begint het?", "time of day", "Om 14.00 uur.", "Het begint."),
        ("Hoe lang duurt het?", "duration", "Het duurt drie weken.", "Het duurt lang."),
    ],
    "polish": [
        ("Kto prowadzi ogród?", "person", "Prowadzi go Żaneta Lis.", "Ogród tętni życiem."),
        ("Kiedy jest otwarte?", "time", "Codziennie.", "Przy pogodzie."),
        ("Ile trzeba zapłacić za kartę?", "money", "Karta kosztuje 20 zł.", "Karta jest zielona."),
        ("Ile czasu mam na zwrot?", "duration", "14 dni.", "Zgodnie z art. 14."),
        ("Ile wynosi składka?", "money", "Wynosi 30 złotych.", "Wynosi."),
        ("O której otwieracie?", "time of day", "O godzinie 9.", "Otwieramy."),
    ],
    "russian": [
        ("Каковы тарифы?", "money", "100 рублей.", "Тарифы высокие."),
        ("До скольки часов открыто?", "time of day", "До 22:00.", "До снега."),
        ("Сколько нужно заплатить за билет?", "money", "Сто рублей.", "Билет зелёный."),
        ("Сколько человек платят взнос?", "number", "Двенадцать.", "Взнос."),
        ("Какая доля возвращается?", "percentage", "50 процентов.", "Взнос."),
        ("На какой срок выбирают совет?", "duration", "На четыре года.", "Совет."),
    ],
    "swedish": [
        ("Hur lång är uppsägningstiden?", "duration", "Den är tre månader.", "Den är lång."),
        ("Hur högt är bidraget?", "money", "Det är 2 000 kr.", "Det är högt."),
        ("Hur ofta provas larmet?", "frequency", "Varannan vecka.", "Larmet provas."),
        ("Vilken tid stänger badet?", "time", "Det stänger kl. 18.", "Det stänger sent."),
        ("Hur många elever betalar?", "number", "Det är 40.", "Enligt paragraf 4."),
        ("Vem leder skolan?", "person", "Den leds av Karin Lövgren.", "Den leds väl."),
    ],
    "turkish": [
        ("Fiyatlar ne kadar?", "money", "50 lira.", "Fiyatlar yüksek."),
        ("Bilet için ne kadar ödemem gerekiyor?", "money", "Bilet elli lira.", "Bilet yeşil."),
        ("Kurs ne kadar sürüyor?", "duration", "Üç hafta.", "Kurs."),
        ("Toplantı saat kaçta?", "time of day", "Saat 14'te.", "Salonda."),
    ],
    "arabic": [
        ("ما هي الأسعار؟", "money", "عشرة دولارات.", "الأسعار مرتفعة."),
        ("كم يجب أن أدفع؟", "money", "عشرة دولارات.", "البطاقة خضراء."),
        ("ما نسبة الخصم؟", "percentage", "20 في المئة.", "الخصم."),
    ],
    "chinese": [
        ("什么时候开门？", "time", "每天。", "天气好。"),
        ("要付多少钱？", "money", "十二元。", "门票是绿色的。"),
        ("占多少比例？", "percentage", "百分之二十。", "很多人。"),
    ],
    "japanese": [
        ("いつ開きますか？", "time", "毎日。", "晴れ。"),
        ("いくら払いますか？", "money", "千円です。", "緑色です。"),
        ("何割が戻りますか？", "percentage", "半分です。", "戻ります。"),
    ],
    "greek": [
        ("Κάθε πότε αλλάζει το φίλτρο;", "frequency", "Κάθε τρεις μήνες.", "Το φίλτρο αλλάζει."),
        ("Πόση ώρα κρατάει;", "duration", "Κρατάει δύο ώρες.", "Κρατάει πολύ."),
    ],
    "ukrainian": [
        ("Як часто миють піч?", "frequency", "Щонеділі.", "Піч миють содою."),
        ("Скільки часу печеться багет?", "duration", "22 хв.", "Багет печеться."),
        ("О котрій відкриваєте?", "time of day", "О 9:30.", "Двері відчинені."),
    ],
    "korean": [
        ("필터는 얼마나 자주 씻나요?", "frequency", "매주 씻습니다.", "물로 씻습니다."),
        ("며칠 동안 빌릴 수 있나요?", "duration", "14일 동안입니다.", "빌릴 수 있습니다."),
        ("책은 몇 권까지 빌리나요?", "number", "7권까지입니다.", "책을 빌립니다."),
    ],
    "hindi": [
        ("कितने दिन पहले बताना होगा?", "duration", "पाँच दिन पहले।", "पहले बताना होगा।"),
        ("कितने बजे खुलता है?", "time of day", "सुबह ९ बजे।", "दरवाज़ा खुलता है।"),
    ],
    "czech": [
        ("V kolik hodin zavíráte?", "time of day", "V 18:30.", "Zavíráme brzy."),
        ("Jak dlouho trvá kurz?", "duration", "Tři týdny.", "Kurz je dlouhý."),
        ("Jak často se čistí filtr?", "frequency", "Jednou za týden.", "Filtr se čistí vodou."),
        ("Kolik procent vrátíte?", "percentage", "Vrátíme polovinu.", "Peníze vrátíme."),
    ],
    "danish": [
        ("Hvad tid lukker badet?", "time of day", "Det lukker kl. 18.30.", "Det lukker tidligt."),
        ("Hvor lang tid varer kurset?", "duration", "Det varer tre uger.", "Kurset er langt."),
        ("Hvor tit skiftes filteret?", "frequency", "Hver måned.", "Filteret skiftes."),
        ("Hvilket nummer skal jeg ringe til?", "telephone number", "Ring 86 15 40 22.", "Ring først."),
    ],
    "finnish": [
        ("Mihin aikaan uimahalli suljetaan?", "time of day", "Kello 18.30.", "Se suljetaan aikaisin."),
        ("Kauanko kurssi kestää?", "duration", "Kolme viikkoa.", "Kurssi on pitkä."),
        ("Kuinka usein suodatin vaihdetaan?", "frequency", "Kerran kuukaudessa.", "Suodatin vaihdetaan."),
        ("Montako prosenttia palautetaan?", "percentage", "Puolet palautetaan.", "Maksu palautetaan."),
    ],
    "romanian": [
        ("La ce oră se închide?", "time of day", "La ora 18.", "Se închide devreme."),
        ("Cât durează cursul?", "duration", "Trei săptămâni.", "Cursul este lung."),
        ("Cât de des se schimbă filtrul?", "frequency", "Lunar.", "Filtrul se schimbă."),
        ("Câte cărți pot împrumuta?", "number", "Șase.", "Cărți noi."),
    ],
}

#: Requests for what the documents say about dogs, and the words that remain to be looked up.
TOPIC_REQUESTS = {
    "german": ("Erzähl mir etwas über Hunde", "Hunde"),
    "french": ("Parle-moi des chiens", "chiens"),
    "spanish": ("Háblame de los perros", "los perros"),
    "italian": ("Parlami dei cani", "cani"),
    "portuguese": ("Fale-me sobre os cães", "os cães"),
    "dutch": ("Vertel me iets over honden", "honden"),
    "polish": ("Opowiedz mi o psach", "psach"),
    "russian": ("Расскажи мне о собаках", "собаках"),
    "swedish": ("Berätta om hundar", "hundar"),
    "turkish": ("Köpekler hakkında bilgi ver", "Köpekler"),
    "arabic": ("أخبرني عن الكلاب", "الكلاب"),
    "chinese": ("介绍一下狗", "狗"),
    "japanese": ("犬について教えてください", "犬"),
    "greek": ("Πες μου για τους σκύλους", "τους σκύλους"),
    "ukrainian": ("Розкажи мені про собак", "собак"),
    "korean": ("개에 대해 알려 주세요", "개"),
    "hindi": ("कुत्तों के बारे में बताओ", "कुत्तों"),
    "czech": ("Řekni mi něco o psech", "psech"),
    "danish": ("Fortæl mig noget om hunde", "hunde"),
    "finnish": ("Kerro minulle koirista", "koirista"),
    "romanian": ("Spune-mi despre câini", "câini"),
}

#: Two questions for an overview of all documents, and a question for a summary of one, with the words of its title.
SUMMARIES = {
    "german": (
        "Worum geht es in diesen Dokumenten?",
        "Fasse alles in 3 Sätzen zusammen.",
        "Fasse die Satzung zusammen.",
    ),
    "french": ("De quoi parlent ces documents ?", "Fais un résumé.", "Résume le règlement de la cantine."),
    "spanish": ("¿De qué tratan estos documentos?", "¿Qué hay en esta carpeta?", "Resume los estatutos."),
    "italian": ("Di cosa parlano questi documenti?", "Cosa c'è in questa cartella?", "Riassumi lo statuto."),
    "portuguese": ("Do que tratam estes documentos?", "Faça um resumo.", "Resuma o estatuto."),
    "dutch": ("Waar gaan deze documenten over?", "Wat staat er in deze map?", "Vat het reglement samen."),
    "polish": ("O czym są te dokumenty?", "Co zawiera ten folder?", "Podsumuj regulamin."),
    "russian": ("О чём эти документы?", "Обобщи документы.", "Перескажи устав."),
    "swedish": ("Vad handlar dokumenten om?", "Vad finns i den här mappen?", "Sammanfatta stadgarna."),
    "turkish": ("Bu belgeler ne hakkında?", "Belgeleri özetle.", "Yönetmeliği özetle."),
    "arabic": ("ما موضوع هذه الوثائق؟", "لخص المستندات", "لخص العقد"),
    "chinese": ("这些文件讲什么？", "这个文件夹里有什么内容？", "总结年假政策"),
    "japanese": ("これらの文書は何についてですか", "文書を要約してください", "就業規則を要約して"),
    "greek": ("Τι περιέχουν αυτά τα έγγραφα;", "Κάνε μου μια περίληψη.", "Κάνε περίληψη του κανονισμού."),
    "ukrainian": ("Про що йдеться в документах?", "Зроби короткий огляд.", "Перекажи правила пекарні."),
    "korean": ("이 문서는 무슨 내용인가요?", "문서를 요약해 주세요", "이용 규칙을 요약해 주세요"),
    "hindi": ("ये दस्तावेज़ किस बारे में हैं?", "सभी दस्तावेज़ों का सारांश दो", "नियमों का सारांश लिखो"),
    "czech": ("O čem jsou tyto dokumenty?", "Shrň všechny soubory.", "Shrň stanovy spolku."),
    "danish": ("Hvad handler dokumenterne om?", "Giv et kort resumé.", "Opsummer vedtægterne."),
    "finnish": ("Mitä nämä asiakirjat sisältävät?", "Tee yhteenveto.", "Tiivistä säännöt."),
    "romanian": ("Despre ce sunt aceste documente?", "Rezumă toate documentele.", "Rezumă regulamentul bibliotecii."),
}

#: The same request for an overview, in a polite form or an indirect question.
INDIRECT_OVERVIEWS = {
    "german": ("Sag mir, worum es in den Dokumenten geht", "Kannst du die Dokumente zusammenfassen?"),
    "french": ("Dis-moi de quoi parlent ces documents", "Peux-tu résumer ces documents ?"),
    "spanish": ("Dime de qué tratan estos documentos", "¿Puedes resumir los documentos?"),
    "italian": ("Dimmi di cosa parlano questi documenti", "Puoi riassumere i documenti?"),
    "portuguese": ("Diga-me de que tratam estes documentos", "Você pode resumir os documentos?"),
    "dutch": ("Vertel me waar deze documenten over gaan", "Kun je de documenten samenvatten?"),
    "polish": ("Powiedz mi, o czym są te dokumenty", "Czy możesz podsumować dokumenty?"),
    "russian": ("Расскажи, о чём эти документы", "Можешь кратко пересказать документы?"),
    "turkish": ("Bana belgelerin ne hakkında olduğunu söyle", "Belgelerin konusu nedir?"),
    "swedish": ("Berätta vad dokumenten handlar om", "Kan du sammanfatta dokumenten?"),
    "arabic": ("أخبرني عما تتحدث هذه المستندات", "هل يمكنك تلخيص المستندات؟"),
    "chinese": ("请告诉我这些文件讲的是什么", "能总结一下这些文件吗？"),
    "japanese": ("この文書の内容を教えてください", "文書を要約してもらえますか"),
    "greek": ("Πες μου τι περιέχουν τα έγγραφα", "Μπορείς να κάνεις σύνοψη;"),
    "ukrainian": ("Скажи, про що ці документи", "Можеш коротко підсумувати документи?"),
    "korean": ("이 문서의 내용을 요약해 줘", "문서를 요약해 줄 수 있나요?"),
    "hindi": ("बताओ कि ये दस्तावेज़ किस बारे में हैं", "क्या आप दस्तावेज़ों का सारांश दे सकते हैं?"),
    "czech": ("Řekni mi, o čem jsou ty dokumenty", "Můžeš dokumenty stručně shrnout?"),
    "danish": ("Fortæl mig, hvad dokumenterne handler om", "Kan du opsummere dokumenterne?"),
    "finnish": ("Kerro, mistä asiakirjat kertovat", "Voitko tehdä yhteenvedon asiakirjoista?"),
    "romanian": ("Spune-mi despre ce sunt documentele", "Poți rezuma documentele?"),
}

#: Questions that are typed without accents, and their kinds. A conjunction without an accent asks for nothing.
UNACCENTED_QUESTIONS = {
    "german": [("wie hoch ist die gebuhr", "money"), ("fur wie lange", "duration")],
    "french": [
        ("a quelle heure ferme le bureau", "time of day"),
        ("ou se trouve la cle", "place"),
        ("peut-on venir lundi ou mardi", "thing"),
    ],
    "spanish": [
        ("cuanto cuesta la entrada", "money"),
        ("donde esta la oficina", "place"),
        ("cuando abre la piscina", "time"),
        ("cual es el numero de telefono", "telephone number"),
        ("se puede entrar cuando llueve", "thing"),
    ],
    "portuguese": [("qual e o preco da aula", "money"), ("horario do ginasio", "time")],
    "polish": [("ile placi czlonek", "money"), ("w ktorym roku", "time")],
    "swedish": [("nar oppnar badet", "time"), ("varfor stangdes badet", "reason")],
    "turkish": [("ucret ne kadar", "money"), ("kac lira", "money")],
    "arabic": [("اين المكتب", "place")],
    "czech": [("kolik stoji listek", "money"), ("jak casto se cisti", "frequency")],
    "romanian": [("cat costa biletul", "money"), ("pana cand", "deadline"), ("unde este cheia", "place")],
}

#: Answers to "when" that name a day of each month, and to "where" without a name.
DAYS_OF_THE_MONTH = {
    "german": ("Wann kommt der Lohn?", "Er kommt am 25. jedes Monats."),
    "french": ("Quand paie-t-on le loyer ?", "On le paie le 5 de chaque mois."),
    "spanish": ("¿Cuándo se paga la cuota?", "Se paga el día 8."),
    "italian": ("Quando si paga la quota?", "Si paga il giorno 8 di ogni mese."),
    "portuguese": ("Quando se paga a quota?", "Paga-se até ao dia 8 de cada mês."),
    "dutch": ("Wanneer komt het loon?", "Het komt op de 25e van de maand."),
    "polish": ("Kiedy płaci się składkę?", "Płaci się do 10. dnia każdego miesiąca."),
    "russian": ("Когда платят зарплату?", "Зарплата выплачивается 10-го и 25-го числа."),
    "swedish": ("När kommer lönen?", "Den kommer den 25 varje månad."),
    "czech": ("Kdy chodí výplata?", "Chodí vždy 12. každého měsíce."),
    "danish": ("Hvornår kommer lønnen?", "Den kommer den 25. i hver måned."),
    "finnish": ("Milloin palkka maksetaan?", "Se maksetaan kuukauden 15. päivä."),
}
PLACES_WITHOUT_A_NAME = {
    "french": ("Où est la clé ?", "Elle est derrière la porte.", "Elle est petite."),
    "spanish": ("¿Dónde está la llave?", "Está detrás de la puerta.", "Es pequeña."),
    "italian": ("Dove si trova la chiave?", "Si trova dietro la porta.", "La chiave è piccola."),
    "portuguese": ("Onde está a chave?", "Está atrás da porta.", "A chave é pequena."),
    "dutch": ("Waar ligt de sleutel?", "Die ligt achter de deur.", "Die is klein."),
    "polish": ("Gdzie jest klucz?", "Jest obok drzwi.", "Jest mały."),
    "russian": ("Где оставить машину?", "Есть стоянка у восточных ворот.", "Стоянка бесплатная."),
    "swedish": ("Var parkerar besökare?", "De parkerar bakom idrottshallen.", "De parkerar gratis."),
    "czech": ("Kde je klíč?", "Je vedle dveří.", "Je malý."),
    "danish": ("Hvor er nøglen?", "Den er bag døren.", "Den er lille."),
    "finnish": ("Missä avain on?", "Se on lähellä ovea.", "Se on pieni."),
    "romanian": ("Unde este cheia?", "Este lângă ușă.", "Este mică."),
}

#: A question for a deadline, an answer, and another time.
DEADLINES = {
    "german": ("Bis wann muss ich zahlen?", "Zahlen Sie spätestens am 3. Mai.", "Am 3. Mai ist Markt."),
    "french": ("Jusqu'à quand peut-on payer ?", "On paie avant le 3 mai.", "Le marché a lieu le 3 mai."),
    "spanish": ("¿Hasta cuándo se puede pagar?", "Se paga hasta el día 8.", "El mercado es el día 8."),
    "italian": ("Entro quando si paga?", "Si paga entro il 3 maggio.", "Il mercato è il 3 maggio."),
    "portuguese": ("Até quando tenho de pagar?", "Paga-se até ao dia 8.", "O mercado é no dia 8."),
    "dutch": ("Tot wanneer kan ik betalen?", "Betaal uiterlijk op 3 mei.", "Op 3 mei is er markt."),
    "polish": ("Do kiedy trzeba zapłacić?", "Trzeba zapłacić do 3 maja.", "Targ jest 3 maja."),
    "russian": ("До какого числа нужно заплатить?", "Заплатите не позднее 3 мая.", "Рынок 3 мая."),
    "turkish": ("Ne zamana kadar ödemeliyim?", "3 Mayıs tarihine kadar ödeyin.", "Pazar 3 Mayıs günü."),
    "swedish": ("Senast när ska jag betala?", "Betala senast den 3 maj.", "Den 3 maj är det marknad."),
    "arabic": ("حتى متى يمكنني الدفع؟", "يمكنك الدفع حتى 3 مايو.", "السوق في 3 مايو."),
    "chinese": ("什么时候之前要付款？", "5月3日之前付款。", "5月3日有集市。"),
    "japanese": ("いつまでに払いますか？", "5月3日までに払います。", "5月3日は市場です。"),
    "greek": ("Μέχρι πότε πρέπει να πληρώσω;", "Πληρώστε μέχρι τις 3 Μαΐου.", "Η αγορά είναι στις 3 Μαΐου."),
    "ukrainian": ("До коли треба заплатити?", "Заплатіть до 3 травня.", "Ярмарок 3 травня."),
    "korean": ("언제까지 내야 하나요?", "5월 3일까지 내세요.", "5월 3일에 장이 섭니다."),
    "hindi": ("कब तक पैसे देने हैं?", "३ मई तक दें।", "बाज़ार ३ मई को है।"),
    "czech": ("Do kdy musím zaplatit?", "Zaplaťte nejpozději 3. května.", "Trh je 3. května."),
    "danish": ("Hvornår skal jeg senest betale?", "Betal senest den 3. maj.", "Den 3. maj er der marked."),
    "finnish": ("Mihin mennessä pitää maksaa?", "Maksa viimeistään 3. toukokuuta.", "Tori on 3. toukokuuta."),
    "romanian": ("Până când trebuie să plătesc?", "Plătiți până la 3 iunie.", "Târgul este pe 3 iunie."),
}


@pytest.mark.parametrize("language", DEADLINES)
def test_a_question_for_a_deadline_prefers_one_to_other_times(language: str) -> None:
    question, deadline, time = DEADLINES[language]
    answer_type = detect_answer_type(question, language)
    assert answer_type.name == "deadline"
    assert 0 < answer_type.score_match(time) < answer_type.score_match(deadline)


#: Questions with words of money or of telephone numbers that ask for something else. Nothing may refuse their answers.
OTHER_KINDS = {
    "portuguese": [("Quanto gasta a lancha por hora?", "number"), ("Quanto mede a pagaia?", "number")],
    "spanish": [("¿Cuánto debe medir la valla?", "number"), ("cuanto mide la pagina", "number")],
    "italian": [("Quanto deve pesare lo zaino?", "number"), ("Quanto si prende per il turno?", "money")],
    "french": [
        ("Combien doit peser le sac ?", "number"),
        ("Que coûte un sac ?", "money"),
        ("Quel numéro porte le dossier ?", "thing"),
    ],
    "turkish": [("Motor ne kadar yakıt harcar?", "number"), ("Hangi numaralı oda?", "thing")],
    "swedish": [("Vad händer om jag inte betalar?", "thing"), ("Vad måste jag betala?", "money")],
    "russian": [("Какой номер договора?", "thing"), ("По какому номеру звонить?", "telephone number")],
    "polish": [("Jaki numer ma umowa?", "thing"), ("Pod jaki numer dzwonić?", "telephone number")],
    "czech": [("Kam mám zavolat, když teče voda?", "telephone number"), ("Kam mám jít?", "place")],
    "german": [("Wo kann ich anrufen?", "telephone number"), ("Wo kann ich parken?", "place")],
}


@pytest.mark.parametrize("language", OTHER_KINDS)
def test_a_word_of_money_alone_asks_for_no_money(language: str) -> None:
    for question, kind in OTHER_KINDS[language]:
        assert detect_answer_type(question, language).name == kind, question


@pytest.mark.parametrize("language", INDIRECT_OVERVIEWS)
def test_indirect_requests_for_an_overview_are_recognized(language: str) -> None:
    assert all(is_overview_question(question, language) for question in INDIRECT_OVERVIEWS[language])


@pytest.mark.parametrize("language", UNACCENTED_QUESTIONS)
def test_questions_can_be_typed_without_accents(language: str) -> None:
    for question, kind in UNACCENTED_QUESTIONS[language]:
        assert detect_answer_type(question, language).name == kind, question


@pytest.mark.parametrize("language", DAYS_OF_THE_MONTH)
def test_a_day_of_each_month_answers_when(language: str) -> None:
    question, answer = DAYS_OF_THE_MONTH[language]
    answer_type = detect_answer_type(question, language)
    assert answer_type.name == "time" and answer_type.is_present_in(answer)


@pytest.mark.parametrize("language", PLACES_WITHOUT_A_NAME)
def test_a_place_without_a_name_answers_where(language: str) -> None:
    question, answer, non_answer = PLACES_WITHOUT_A_NAME[language]
    answer_type = detect_answer_type(question, language)
    assert answer_type.name == "place" and answer_type.is_present_in(answer)
    assert not answer_type.is_present_in(non_answer)
    assert not answer_type.is_present_in("From: Petra Wallin <petra@example.org> Date: Mon, 10 Feb 2025 16:05:00 +0100")


def test_every_language_is_tested_above() -> None:
    languages = {path.stem for path in FOLDER.glob("*.toml")}
    assert languages == QUESTIONS.keys() == EVERYDAY_QUESTIONS.keys() == SUMMARIES.keys() == TOPIC_REQUESTS.keys()
    assert languages == INDIRECT_OVERVIEWS.keys() == DEADLINES.keys()


@pytest.mark.parametrize("language", SUMMARIES)
def test_requests_for_summaries_are_recognized(language: str) -> None:
    *overviews, summary = SUMMARIES[language]
    assert all(is_overview_question(question, language) for question in overviews)
    request = parse_summary_request(summary, language)
    assert request is not None and request.subject and not request.covers_all
    others = [question for question, *_ in QUESTIONS[language] + EVERYDAY_QUESTIONS[language]]
    assert not any(is_overview_question(question, language) for question in others)


@pytest.mark.parametrize("language", TOPIC_REQUESTS)
def test_the_words_of_a_request_for_a_topic_are_not_looked_up(language: str) -> None:
    request, topic = TOPIC_REQUESTS[language]
    vocabulary = load_question_words(language)
    assert vocabulary is not None and vocabulary.remove_interrogatives(request).strip() == topic


def test_a_request_for_a_topic_and_a_question_for_a_duty_are_answered_in_italian(store: kvstore.Store) -> None:
    store.put("rifugio", "Nel rifugio i cani sono ammessi nella legnaia. La cena è alle sette di sera nella sala.")
    store.put("corso", "Il corso si tiene sulla neve. Il casco è obbligatorio in tutte le uscite del corso.")
    assert "legnaia" in store.ask("Parlami dei cani").text.partition("\n")[0]
    assert not store.ask("Parlami dei cani").abstained
    answer = store.ask("Bisogna avere il casco?")
    assert not answer.abstained and answer.text.startswith("Il casco è obbligatorio")


#: A question for the hour at which a museum opens, and texts of which the first has it.
OPENING_HOURS = {
    "italian": (
        "A che ora apre il museo?",
        "Orari di apertura del museo: dalle 10:00 alle 17:30.",
        "Il museo è chiuso dal 2024; la mostra è in estate.",
    ),
    "spanish": (
        "¿A qué hora abre el museo?",
        "Horario de apertura del museo: de 10:00 a 17:30.",
        "El museo se reformó en 2024; la exposición es en verano.",
    ),
    "french": (
        "À quelle heure ouvre le musée ?",
        "Heures d'ouverture du musée : de 10h00 à 17h30.",
        "Le musée a été rénové en 2024 ; l'exposition a lieu en été.",
    ),
    "german": (
        "Um wie viel Uhr öffnet das Museum?",
        "Öffnungszeiten des Museums: von 10 bis 17.30 Uhr.",
        "Das Museum wurde 2024 renoviert; die Ausstellung ist im Sommer.",
    ),
    "portuguese": (
        "A que horas abre o museu?",
        "Horário de abertura do museu: das 10:00 às 17:30.",
        "O museu foi renovado em 2024; a exposição é no verão.",
    ),
}


@pytest.mark.parametrize("language", OPENING_HOURS)
def test_opening_hours_answer_when_a_house_opens_and_a_year_does_not(language: str, tmp_path: Path) -> None:
    question, hours, other = OPENING_HOURS[language]
    with kvstore.open(tmp_path / "s", embedder="hashing", settings={"stemmer": language}) as store:
        store.put("a", other)
        store.put("b", hours)
        answer = store.ask(question)
        assert not answer.abstained and answer.text.startswith(hours)
        answer_type = detect_answer_type(question, language)
        assert answer_type.is_present_in(hours) and not answer_type.is_present_in(other)


@pytest.mark.parametrize(
    ("language", "question", "weekdays", "weekend"),
    [
        (
            "italian",
            "A che ora apre il museo la domenica?",
            "Museo, apertura: lun-gio 10:00-17:00.",
            "ven-dom 9:30-19:30.",
        ),
        (
            "french",
            "À quelle heure ouvre le musée le dimanche ?",
            "Musée, ouverture : lun-jeu 10h00-17h00.",
            "ven-dim 9h30",
        ),
        (
            "german",
            "Um wie viel Uhr öffnet das Museum am Sonntag?",
            "Museum, Öffnung: Mo-Do 10-17 Uhr.",
            "Fr–So 9-19 Uhr.",
        ),
    ],
)
def test_a_weekday_is_in_a_range_of_abbreviated_weekdays(
    language: str, question: str, weekdays: str, weekend: str, tmp_path: Path
) -> None:
    with kvstore.open(tmp_path / "s", embedder="hashing", settings={"stemmer": language}) as store:
        store.put("a", weekdays)
        assert store.ask(question).abstained
        store.put("b", f"{weekdays.partition(':')[0]}: {weekend}")
        answer = store.ask(question)
        assert not answer.abstained and weekend in answer.text.partition("\n")[0]


@pytest.fixture
def italian_store(tmp_path: Path) -> Iterator[kvstore.Store]:
    with kvstore.open(tmp_path / "s", embedder="hashing", settings={"stemmer": "italian"}) as store:
        yield store


def test_a_price_is_that_of_the_year_of_the_question(italian_store: kvstore.Store, tmp_path: Path) -> None:
    (tmp_path / "tariffe.md").write_text(
        "# Tariffe del museo\n\n| Biglietto | 2025 | 2026 | Note |\n| --- | --- | --- | --- |\n| Intero | 8 | 9 | |\n"
        "| Famiglia | 18 | 20 | due adulti |\n| Scuole | 2.5 | 3 | biglietto gratis per l'insegnante |\n"
        "| Residenti | 4 | 4 | gratis la prima domenica |\n| Audioguida | 3 | 3 | gratis con il biglietto |\n",
        encoding="utf-8",
    )
    italian_store.ingest(tmp_path / "tariffe.md")
    italian_store.put("inventario", "Nel 2023 è stato comprato un termoigrometro.")
    question = "Quanto costa il biglietto famiglia nel 2025?"
    assert "Biglietto: Famiglia; 2025: 18" in italian_store.ask(question).text.partition("\n")[0]
    assert italian_store.ask("Quanto costava il biglietto per due adulti nel 2023?").abstained
    italian_store.put("riunione", "Nel 2025 abbiamo avuto 14.382 visitatori al museo, contro i 12.905 del 2024.")
    assert not italian_store.ask("Quanti visitatori abbiamo avuto al museo nel 2024?").abstained
    assert italian_store.ask("Quanti visitatori abbiamo avuto al museo nel 2023?").abstained


def test_the_name_next_to_an_office_answers_who_holds_it(italian_store: kvstore.Store) -> None:
    offices = "presidente Rosa Conti, tesoriere Anna Lippi."
    italian_store.put(
        "verbale",
        "Amici del Museo di Lucca, assemblea di gennaio.\n\nIl bilancio è approvato.\n\n"
        f"Nuove cariche: {offices}\n\nSostengono gli Amici del Museo: Ceramiche Vanni, Cantina Poggio.",
    )
    answer = italian_store.ask("Chi è il tesoriere degli Amici del Museo?")
    assert answer.text.startswith(f"Nuove cariche: {offices}")


def test_a_name_after_an_article_is_found_after_a_preposition(italian_store: kvstore.Store) -> None:
    italian_store.put("foto", "Le fotografie sull’Arno sono di Rosa Conti.")
    italian_store.put("sale", "Le fotografie delle sale sono di Carlo Neri.")
    answer = italian_store.ask("Di chi sono le fotografie dell'Arno?")
    assert not answer.abstained and "Rosa Conti" in answer.text.partition("\n")[0]
    assert "No document mentions Etna." in italian_store.ask("Di chi sono le fotografie dell'Etna?").text


def test_the_row_of_a_thing_answers_for_its_price_in_the_currency_of_the_column(
    italian_store: kvstore.Store, tmp_path: Path
) -> None:
    (tmp_path / "Preisliste.md").write_text(
        "# Preisliste Zubehör\n\n| Bezeichnung | Händlerpreis CHF | Publikumspreis CHF |\n| --- | --- | --- |\n"
        "| Ladestation Duo | 98.00 | 195.00 |\n| TV-Streamer | 119.00 | 249.00 |\n| Reise-Etui | 142.00 | 289.00 |\n",
        encoding="utf-8",
    )
    italian_store.ingest(tmp_path / "Preisliste.md")
    italian_store.put("trasporto", "Il rimborso del trasporto pubblico è di CHF 60.– al mese.")
    answer = italian_store.ask("Quanto costa il TV-Streamer per il pubblico?")
    assert not answer.abstained and "Publikumspreis CHF: 249.00" in answer.text.partition("\n")[0]
    abroad = italian_store.ask("Quanto costa il TV-Streamer per il pubblico in Norvegia?")
    assert abroad.abstained and "No document mentions Norvegia." in abroad.text
    assert "amount of money" not in abroad.text


def test_a_name_with_another_number_is_another_thing(italian_store: kvstore.Store) -> None:
    italian_store.put("manuale", "Una pila della Senta 3 dura 270 ore. Una pila della Senta 5 dura 215 ore.")
    assert "215 ore" in italian_store.ask("Quanto dura una pila della Senta 5?").text.partition("\n")[0]
    assert italian_store.ask("Quanto dura una pila della Senta 7?").abstained


def test_a_person_with_a_first_name_is_known_by_title_and_surname(tmp_path: Path) -> None:
    with kvstore.open(tmp_path / "s", embedder="hashing", settings={"stemmer": "french"}) as store:
        store.put("absences", "Bastien Rochat demande qui remplace Mme Monnier. Réponse : Delphine Crausaz, dès mars.")
        store.put("présents", "Présents : Yann Perret (président), Sylvie Monnier, Amélie Rochat, Nadia Blanc.")
        answer = store.ask("Qui remplace donc Sylvie Monnier au printemps ?")
        assert not answer.abstained and answer.text.startswith("Bastien Rochat demande qui remplace Mme Monnier.")
        assert store.ask("Qui remplace donc Nadia Blanc au printemps ?").abstained


#: A question for a weight, and its answer.
WEIGHTS = {
    "german": ("Wie schwer ist das Boot?", "Das Boot wiegt 1'250 kg."),
    "french": ("Combien pèse le bateau ?", "Poids (kg) : 40"),
    "italian": ("Quanto pesa la barca?", "La barca pesa 1,9 t."),
    "spanish": ("¿Cuánto pesa el barco?", "Pesa cuarenta kilos."),
    "portuguese": ("Quanto pesa o barco?", "Pesa 3 toneladas."),
    "dutch": ("Hoe zwaar is de boot?", "Het gewicht is 40 kilo."),
    "swedish": ("Hur mycket väger båten?", "Båten väger 40 kg."),
    "polish": ("Ile waży łódź?", "Łódź waży 40 kg."),
    "russian": ("Сколько весит лодка?", "Лодка весит 40 кг."),
    "turkish": ("Tekne kaç kilo?", "Tekne 40 kg."),
    "arabic": ("كم يزن القارب؟", "وزنه 40 كجم."),
    "chinese": ("这条船有多重？", "这条船重40公斤。"),
    "japanese": ("船は何キログラムですか？", "船は40キロです。"),
    "czech": ("Kolik váží ta loď?", "Loď váží 40 kg."),
    "danish": ("Hvor meget vejer båden?", "Båden vejer 40 kg."),
    "finnish": ("Paljonko vene painaa?", "Vene painaa 40 kg."),
    "romanian": ("Cât cântărește barca?", "Barca are 40 kg."),
}


@pytest.mark.parametrize("language", WEIGHTS)
def test_a_number_without_a_unit_of_weight_is_no_weight(language: str) -> None:
    question, answer = WEIGHTS[language]
    answer_type = detect_answer_type(question, language)
    assert answer_type.name == "weight" and answer_type.is_present_in(answer)
    assert answer_type.is_unlikely_in("AU-2030: 798.00, 8, 12 5 gestern, 215 h, 4 Ncm, 2,3 mA, 8 toner, 9 kilometer")


def test_what_has_no_weight_in_the_documents_is_not_answered(italian_store: kvstore.Store) -> None:
    italian_store.put("listino", "La Senta Power costa 1640.00 franchi e si consegna in 8 giorni.")
    italian_store.put("scheda", "La Luma 90 pesa 1,9 g senza ricevitore.")
    assert "1,9 g" in italian_store.ask("Quanto pesa la Luma 90?").text.partition("\n")[0]
    assert italian_store.ask("Quanto pesa la Senta Power?").abstained


#: A question for the age of a person, a text without an age, and one with it.
AGES = {
    "arabic": ("كم عمر سمير حداد؟", "حضر سمير حداد (رئيس) الاجتماع في 3 مارس.", "سمير حداد عمره 42 عاما."),
    "chinese": ("陆雅琴今年多大年纪？", "陆雅琴是财务部经理，分机8006。", "陆雅琴今年42岁。"),
    "czech": (
        "Kolik je Radku Šimůnkovi let?",
        "Radek Šimůnek je na směně, jeho telefon je 604 118 230.",
        "Radku Šimůnkovi je 42 let.",
    ),
    "danish": (
        "Hvor gammel er Ole Thorup?",
        "Ole Thorup er på kontoret af og til, lokalnummer 14.",
        "Ole Thorup fyldte 42 i maj.",
    ),
    "dutch": ("Hoe oud is Piet Visser?", "Piet Visser woont op nummer 14.", "Piet Visser is 42 jaar oud."),
    "finnish": (
        "Kuinka vanha Leena Salo on?",
        "Leena Salo vastaa numerosta 040 551 2210.",
        "Leena Salo on 42-vuotias.",
    ),
    "french": ("Quel âge a Claire Morel ?", "Claire Morel habite au numéro 14.", "Claire Morel a 42 ans."),
    "german": ("Wie alt ist Hanna Meier?", "Hanna Meier wohnt in Haus 14.", "Hanna Meier (geb. 1982) wohnt hier."),
    "greek": (
        "Πόσων χρονών είναι ο Νίκος Παππάς;",
        "Ο Νίκος Παππάς έχει την καμπίνα 14.",
        "Ο Νίκος Παππάς είναι 42 ετών.",
    ),
    "hindi": ("सुनीता शर्मा की उम्र कितनी है?", "सुनीता शर्मा घर 14 में रहती हैं।", "सुनीता शर्मा 42 साल की हैं।"),
    "italian": ("Quanti anni ha Rosa Conti?", "Rosa Conti abita al numero 14.", "Rosa Conti ha 42 anni."),
    "japanese": ("高橋誠さんは何歳ですか？", "高橋誠さんは14号室に泊まっています。", "高橋誠は42歳です。"),
    "korean": ("이정희 관장은 몇 살인가요?", "이정희 관장의 사무실은 14호입니다.", "이정희 관장은 42세입니다."),
    "polish": ("Ile lat ma pani Hanna Maj?", "Hanna Maj mieszka pod numerem 14.", "Hanna Maj ma 42 lata."),
    "portuguese": ("Quantos anos tem a Rita Sousa?", "A Rita Sousa mora no número 14.", "A Rita Sousa tem 42 anos."),
    "romanian": ("Ce vârstă are Vasile Rusu?", "Vasile Rusu are interiorul 120.", "Vasile Rusu are 42 de ani."),
    "russian": (
        "Сколько лет Ирине Соколовой?",
        "Ирина Соколова работает не в этом зале, а в комнате 14.",
        "Ирине Соколовой 42 года.",
    ),
    "spanish": ("¿Cuántos años tiene Ana Gil?", "Ana Gil vive en el número 14.", "Ana Gil (42) vive aquí."),
    "swedish": ("Hur gammal är Karin Ek?", "Karin Ek bor på nummer 14.", "Karin Ek är född 1982."),
    "turkish": (
        "Ayşe Yıldırım kaç yaşında?",
        "Ayşe Yıldırım bu binada ve 14 numarada oturuyor, o bir başkan.",
        "Ayşe Yıldırım 42 yaşında.",
    ),
    "ukrainian": ("Скільки років Ірині Мельник?", "Ірина Мельник сидить у кімнаті 14.", "Ірині Мельник 42 роки."),
}


@pytest.mark.parametrize("language", AGES)
def test_the_age_of_a_person_is_answered_only_if_the_documents_have_it(language: str, tmp_path: Path) -> None:
    question, other, answer = AGES[language]
    assert detect_answer_type(question, language).name == "age"
    stemmer = {"hindi": "indic", "japanese": "none", "chinese": "none"}.get(language, language)
    with kvstore.open(tmp_path / "s", embedder="hashing", settings={"stemmer": stemmer}) as store:
        store.put("a", other)
        assert store.ask(question).abstained
        store.put("b", answer)
        reply = store.ask(question)
        assert not reply.abstained and ("42" in reply.text or "1982" in reply.text)


def test_the_age_of_another_person_or_thing_is_no_age_of_the_person(tmp_path: Path) -> None:
    with kvstore.open(tmp_path / "s", embedder="hashing", settings={"stemmer": "polish"}) as store:
        minutes = "Na zebraniu byli: Hanna Maj (przewodnicząca), Tomasz Lis (skarbnik) oraz jego żona Ewa."
        store.put("a", f"{minutes} Wybrano firmę Dach-Pol, która naprawi dach do maja. Dach ma gwarancję na 8 lat.")
        assert store.ask("Ile lat ma pani Hanna Maj?").abstained
        store.put("b", "Most Karola w Pradze zbudowano w 1357 roku. Most Karola jest z kamienia.")
        assert not store.ask("Ile lat ma Karola most z kamienia?").abstained


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("Wie alt ist Anna Weber?", "Anna Weber, Köchin, * 3. Mai 1984 in Husum"),
        ("Wie alt ist die Villa Rosa Park?", "Die Villa Rosa Park wurde 1920 gebaut."),
    ],
)
def test_a_year_can_show_the_age(question: str, text: str, tmp_path: Path) -> None:
    with kvstore.open(tmp_path / "s", embedder="hashing", settings={"stemmer": "german"}) as store:
        store.put("a", text)
        assert not store.ask(question).abstained


@pytest.mark.parametrize(
    ("text", "language", "weekdays", "months"),
    [
        ("Herr Martin öffnet die Kasse.", "german", [], []),
        ("Kdy je otevřeno v úterý a ve středu?", "czech", [1, 2], []),
        ("Deschis luni și joi, valabil 6 luni.", "romanian", [0, 3], []),
        ("Åbent tirsdag i denne bygning ved arkivet.", "danish", [1], []),
        ("Kierownik Maj wydaje klucze w marcu.", "polish", [], [3]),
        ("Где Марта выдаёт ключи 5 мая?", "russian", [], [5]),
    ],
)
def test_names_and_words_of_other_languages_are_no_days_or_months(
    text: str, language: str, weekdays: list[int], months: list[int]
) -> None:
    dates = find_date_words(text, language)
    assert (sorted(dates.weekdays), sorted(dates.months), dates.has_other_days) == (weekdays, months, False)


@pytest.mark.parametrize(
    ("question", "answer", "non_answer"),
    [
        ("Quanta umidità è ammessa?", "Al massimo il 50 %.", "5.2 L'umidità della sala è regolata."),
        ("Quante casse arrivano?", "Ne arrivano 12.", "La cassa MC 0306 arriva dal 3 al 16 agosto."),
        ("Quanto dura la visita?", "Dura due ore.", "Il museo è aperto dal 2024. Il mese migliore è agosto."),
        ("Quanto dura la visita?", "Dura 40 minuti.", "Serve un secondo custode."),
    ],
)
def test_the_numbers_of_clauses_codes_and_dates_are_no_amounts(question: str, answer: str, non_answer: str) -> None:
    answer_type = detect_answer_type(question, "italian")
    assert answer_type.is_present_in(answer) and not answer_type.is_present_in(non_answer)


def test_a_german_store_is_summarized_in_german(tmp_path: Path) -> None:
    with kvstore.open(tmp_path / "s", embedder="hashing", settings={"stemmer": "german"}) as store:
        store.put("satzung", "Der Verein heißt Tidemoor und hat seinen Sitz in Husum.", title="Satzung des Vereins")
        store.put("protokoll", "Die Versammlung wählte am Montag einen Vorstand.", title="Protokoll vom 3. Mai")
        text = store.ask("Worum geht es in den Dokumenten?").text
        assert "- Protokoll vom 3. Mai: Die Versammlung wählte am Montag einen Vorstand. [1]" in text
        assert store.ask("Fasse die Satzung zusammen.").text.startswith("Der Verein heißt Tidemoor")


def test_a_swedish_store_is_asked_in_swedish(tmp_path: Path) -> None:
    settings = {"stemmer": "swedish"}
    with kvstore.open(tmp_path / "s", embedder="hashing", settings=settings) as store:
        store.put(
            "protokoll_skolrad_2025-03-04",
            "Mötet började kl. 18 i aulan. Rektor Karin Lövgren hälsade alla välkomna till mötet.",
        )
        store.put("regler", "Vårdnadshavare anmäler senast kl. 7.45 att eleven är sjuk. Bad är gratis för elever.")
        # The minutes are found by other forms of the words of their key.
        assert store.ask("Sammanfatta protokollet från skolrådet").text.startswith("Mötet började kl. 18 i aulan.")
        # A compound, and a typing error.
        answer = store.ask("Senast vilken tid måste jag sjukanmäla eleven?")
        assert answer.text.startswith("Vårdnadshavare anmäler senast kl. 7.45 att eleven är sjuk.")
        assert "Karin Lövgren" in store.ask("Vem är rekotr?").text.partition("\n")[0]


@pytest.mark.parametrize("language", QUESTIONS)
def test_questions_are_classified_and_answers_recognized(language: str) -> None:
    for question, kind, answer, non_answer in QUESTIONS[language] + EVERYDAY_QUESTIONS[language]:
        classified = detect_answer_type(question, language)
        assert classified.name == kind, question
        assert classified.is_present_in(answer), question
        assert not classified.is_present_in(non_answer), question


@pytest.mark.parametrize("language", QUESTIONS)
def test_most_questions_show_their_language(language: str) -> None:
    detected = [detect_question_language(question, language) for question, *_ in QUESTIONS[language]]
    assert detected == [language] * len(detected)


@pytest.mark.parametrize("language", QUESTIONS)
def test_every_file_has_the_same_entries(language: str) -> None:
    files = [tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8")) for name in ("german", language)]
    structures = [
        {name: value.keys() if isinstance(value, dict) else type(value) for name, value in data.items()}
        for data in files
    ]
    assert structures[0] == structures[1]
    words = load_question_words(language)
    assert words is not None and {"time", "number", "money", "duration", "reason"} <= words.forms.keys()


def test_languages_without_a_file_and_english_have_no_question_words() -> None:
    assert load_question_words("english") is None and load_question_words("hungarian") is None
    assert load_question_words(None) is None and detect_answer_type("Mikor épült a híd?", "hungarian").name == "thing"


def test_the_answer_has_the_kind_that_the_question_asks_for(store: kvstore.Store) -> None:
    store.put(
        "verein",
        "Der Jahresbeitrag wird vom Konto abgebucht. Der Jahresbeitrag beträgt 84 Euro. Der Jahresbeitrag ist Pflicht. "
        "Der Verein hat einen Vorstand und eine Kasse, und er ist im Register der Stadt eingetragen.",
    )
    assert "84 Euro" in store.ask("Was kostet der Jahresbeitrag des Vereins?").text


def test_the_price_of_something_else_answers_no_question(store: kvstore.Store) -> None:
    store.put("chaudière", "La chaudière de la salle fonctionne avec des granulés. Le silo contient quatre tonnes.")
    store.put("cantine", "Les repas sont servis à midi par la cuisinière. Un repas coûte 3 euros à la cantine.")
    answer = store.ask("Combien coûte une tonne de granulés dans le silo de la chaudière ?")
    assert answer.abstained and "No passage contains any amount of money." in answer.text
    assert "3 euros" in store.ask("Combien coûte un repas à la cantine ?").text


def test_a_verb_at_the_end_of_a_question_shows_that_it_asks_for_a_price(store: kvstore.Store) -> None:
    store.put("halle", "Das neue Dach der Halle hat 300 Ziegel. Zwei Firmen haben das neue Dach gebaut.")
    store.put("bad", "Der Eintritt in das Bad ist für Kinder kostenlos. Das Bad hat zwei Becken.")
    answer = store.ask("Wie viel hat das neue Dach der Halle gekostet?")
    assert answer.abstained and "No passage contains any amount of money." in answer.text
    assert not store.ask("Wie viel müssen Kinder als Eintritt in das Bad bezahlen?").abstained


def test_the_number_and_title_of_an_article_are_part_of_its_first_sentence(store: kvstore.Store) -> None:
    store.put(
        "estatutos",
        "Artículo 7. Aportación. La cuota de los socios es de 15 euros al mes. Se paga en enero.\n\n"
        "Artículo 8. Junta. La junta se reúne cada mes en la sede de los socios. La preside la presidenta.",
    )
    assert (
        "Artículo 7. Aportación. La cuota de los socios es de 15 euros" in store.ask("¿Cuánto pagan los socios?").text
    )


def test_a_function_word_of_a_short_question_chooses_no_sentence(store: kvstore.Store) -> None:
    store.put("ogród", "Ogród jest duży, jest zielony i jest czynny latem. Tu jest świetlica, a w niej jest kuchnia.")
    store.put("zebranie", "Zebranie otworzył prezes Zbigniew Kaczmarek. Potem skarbniczka podała liczby za cały rok.")
    assert store.ask("Kto jest prezes?").text == "Zebranie otworzył prezes Zbigniew Kaczmarek. [1]"


@pytest.mark.parametrize(
    ("language", "kind", "text", "is_present"),
    [
        ("french", "person", "Le roman a été écrit par M. Zola.", True),
        ("french", "person", "La classe est au bâtiment M. Elles arrivent.", False),
        ("italian", "person", "Le zone della piscina sono: A. Spogliatoio, B. Palestra.", False),
        ("french", "person", "A. Sortie au musée", False),
        ("spanish", "person", "En el aula B. Las clases empiezan.", False),
        ("german", "money", "Arbeitspreis ct/kWh (brutto): 26.47", True),
        ("german", "money", "Der Strom kostet 26 ct", True),
        ("german", "money", "Das CT 3 im Keller", False),
        ("french", "money", "ct 12 rue de la Gare", False),
        ("german", "duration", "Tage bis zum Start: 3", False),
    ],
)
def test_a_title_begins_a_name_and_ct_is_a_unit(language: str, kind: str, text: str, is_present: bool) -> None:
    words = load_question_words(language)
    assert words is not None and bool(words.forms[kind].search(text)) is is_present


def test_a_field_with_only_a_number_is_a_count() -> None:
    pattern = build_count_pattern("élèves")
    for text in ("Élèves : 25", "École: Curie; Élèves: 1 250; Salles: 40"):
        assert pattern.search(text)
    for text in ("Les élèves arrivent: 8h30.", "Élèves, début: 9 heures", "Élèves: 9 heures", "Élèves : 5 €",
                 "Élèves: 12 m²", "Élèves: 0431 123456", "Élèves: 8.30", "Élèves: 20 %"):  # fmt: skip
        assert not pattern.search(text), text


def test_dates_and_amounts_are_not_telephone_numbers() -> None:
    vocabulary = load_question_words("german")
    assert vocabulary is not None
    pattern = vocabulary.forms["telephone number"]
    for text in (
        "2026-03-03",
        "01.04.2026, 14 Uhr",
        "seit 04/2026",
        "1. 4. 2026",
        "2025/2026",
        "412.700,00 €",
        "1.412.700",
    ):
        assert not pattern.search(text), text
    for text in ("0551 44120", "Tel. 0551/4412-15", "(089) 123 456", "+49 551 44120", "555.123.4567", "089.123.456"):
        assert pattern.search(text), text


@pytest.mark.parametrize(
    ("stemmer", "table", "question", "answer", "unknown"),
    [
        (
            "polish",
            "# Kocioł\n\n| kod | znaczenie | co robić |\n|---|---|---|\n| E05 | za niskie ciśnienie | dopuścić wodę |\n"
            "| E17 | przegrzanie | wyłączyć kocioł |\n",
            "Co zrobić, gdy kocioł pokazuje E05?",
            "dopuścić wodę",
            "Co zrobić, gdy kocioł pokazuje E09?",
        ),
        (
            "swedish",
            "# Pumpen\n\n| Kod | Betyder | Åtgärd |\n|---|---|---|\n| F4 | läckagelarm | tryck på nödstopp |\n"
            "| F8 | ingen uppkoppling | betala med Swish |\n",
            "Vad ska jag göra när pumpen visar F4?",
            "nödstopp",
            "Vad ska jag göra när pumpen visar F6?",
        ),
    ],
)
def test_a_code_is_answered_by_its_row(
    tmp_path: Path, stemmer: str, table: str, question: str, answer: str, unknown: str
) -> None:
    with kvstore.open(tmp_path / "store", embedder="hashing", settings={"stemmer": stemmer}) as store:
        (tmp_path / "manual.md").write_text(table, encoding="utf-8")
        store.ingest(tmp_path / "manual.md")
        reply = store.ask(question)
        assert reply.outcome == "answered" and answer in reply.text.split("\n\n")[0]
        assert store.ask(unknown).outcome != "answered"
