"""Function words of languages other than English, by the Snowball names of the languages.

Out: :data:`MARKING_WORDS`, which English texts rarely contain and which show that a text is not English, and
:data:`FUNCTION_WORDS_BY_LANGUAGE`, these and all others, in normal form.

The extraction of names depends on the first, so changing it changes what is derived from stored documents. The second
is only used for questions and for the language of a new store.
"""

from __future__ import annotations

from collections.abc import Mapping

from .light_stemmers import INDIC_RUN_PATTERN, stem_indic_run
from .normalize import fold_without_offsets

_MARKING: Mapping[str, str] = {
    "german": """
        der die das und ist nicht ein eine einer eines einem einen mit für auf dem den des von zu zum zur im als auch
        wird werden sind oder wenn kann nach bei aus sich wie nur über durch dass noch sie wir ich haben hat wurde
    """,
    "french": """
        le la les et est une un de des dans pour que qui sur au aux du en pas par avec ce cette sont il elle nous vous
        leur ou où ne se si sa ses comme être ces mais même aussi été
    """,
    "spanish": """
        el los la las una un es en con de del que su sus pero se este esta más lo como por para sin sobre entre cuando
        muy también
    """,
    "italian": """
        di che è non sono il la le un una con nel nella alla gli della delle dei degli da del si anche più questo questa
        viene essere
    """,
    "portuguese": """
        de que os um uma dos da das em na não se para por ao pelo pela ele ela são também isso seu sua mais como
    """,
    "dutch": "de het een en van niet op te dat die voor zijn aan er ook bij door naar wordt worden deze maar als uit",
    "swedish": "och att det som en på är av för den till med inte har ett från vara eller kan detta men ska",
    "danish": "og det af en er som på den med ikke til har men blir jeg også hvis skal kan",
    "norwegian": "og av det en er som på den med ikke til har men blir jeg å være også hvis skal kan",
    "finnish": "ja ei että oli ovat myös kun tai sekä mutta joka tämä sen",
    "polish": "się nie jest że jak na po za od przez oraz lub są dla tym może które",
    "czech": "je se na že jako po za od pro které nebo jsou ale není při jeho",
    "hungarian": "az és hogy nem egy ez meg csak vagy",
    "turkish": "ve bir bu için ile de da olarak olan gibi daha çok",
    "romanian": "și în cu de la pe nu este care un din pentru mai sau au",
    "indonesian": "yang dan dari untuk dengan pada ini itu adalah dalam tidak",
    "vietnamese": "và của là có được trong cho không một các",
}

#: Other function words: those that also occur in English, and question words.
_OTHERS: Mapping[str, str] = {
    "german": """
        in an am war so was warum wer wann wo wieso weshalb welche welcher welches welchen welchem wem wen wessen wohin
        woher wofür womit wovon viel viele hatte habe muss müssen musste darf dürfen können konnte soll sollen will
        wollen gibt es vom beim ins man mir mich uns unser unsere mein meine ihr ihre ihren ihrer ihrem sein seine
        seinen seiner seinem seit dann doch denn mal bitte ab diese dieser dieses diesen diesem er du dich dir ihn ihm
        ihnen bin bist waren wäre hätte würde worden kein keine keinen keiner keinem jede jeder jedes jeden jedem alle
        aber also damit dazu dort hier bis ohne gegen unter vor zwischen während weil ob mehr sehr schon immer dabei
        daran darin darauf davon jetzt selbst sowie müsste könnte sollte dürfte könnten sollten kannst musst brauche
        brauchen braucht
    """,
    "french": """
        son plus cet quel quelle quels quelles quand combien comment pourquoi quoi à a y on ils elles je tu me te moi
        toi ont ai as avez avons avait avaient eu fait faire faut peut peuvent doit doivent tout tous toute toutes c d j
        l m n s t qu notre nos votre vos mon ma mes ton ta tes leurs lui eux dont donc car ni sans sous entre chez vers
        depuis après avant pendant jusqu lorsque lors puis encore très trop peu beaucoup ici là était étaient sera
        serait suis es sommes êtes soit cela ça celui celle ceux celles chaque autre autres parce lequel laquelle
        lesquels lesquelles pouvons pouvez dois devons devez veux veut voulez faites quelqu lorsqu puisqu
    """,
    "spanish": """
        qué quién quiénes cuándo cuánto cuánta cuántos cuántas dónde cómo cuál cuáles hay tiene tienen tenía hace puede
        pueden debe deben fue fueron era eran ser son está están estaba soy ha han había sido no ni si sí ya a y e o u
        al le les nos me mi mis te tu tus yo él ella ellos ellas desde hasta hacia según durante contra nuestro nuestra
        porque estos estas ese esa esos esas eso esto aquel aquella otro otra otros otras uno unos unas todo toda todos
        todas donde quien quienes cual cuales cuanto antes después mucho muchos poco nada algo puedo puedes podemos debo
        debemos tengo tienes tenemos hacer necesito necesita
    """,
    "italian": """
        per al come chi cosa quando quanto quanta quanti quante dove come perché quale quali ha hanno ho hai aveva era
        erano sia c e ed i o a l d in ma se lo uno ci vi mi ti ne su tra fra dal dalla dai dalle allo agli alle ai dello
        nello nei nelle sul sulla sui sulle col io tu lui lei noi voi loro suo sua suoi sue mio mia tuo tua nostro
        nostra stato stata stati state fu furono può possono deve devono fa quello quella quelli quelle questi queste
        ogni tutto tutti tutta tutte molto poco già ancora dopo prima senza contro cui bisogna occorre posso puoi
        possiamo potete devo devi dobbiamo dovete abbiamo avete avere fare fanno faccio va vanno vorrei voglio vuole
        dell nell sull dall quell qual dov cos quant tiene tengono vengono
    """,
    "portuguese": """
        do com quem quando quanto quantos quantas onde qual quais quê porquê porque tem têm tinha há foi foram era eram
        pode podem deve devem ser está estão estava a o as e no nos nas num numa à às aos me meu minha nosso nossa te
        teu tua eu nós eles elas lhe lhes este esta estes estas esse essa esses essas aquele aquela já até sem sob sobre
        entre depois antes muito muitos pouco todo toda todos todas outro outra outros outras nem ou mas pelos pelas
        cada posso podemos devo devemos tenho temos ter fazer preciso precisa vai vão vou vamos estar ficar fica ficam
        haver seu sua seus suas isso isto você vocês
    """,
    "dutch": """
        met is der den wie wat wanneer waar waarom welke welk hoeveel hoe heeft hebben had hadden was waren kan kunnen
        moet moeten mag zal zou ik we wij je jij jullie ons onze mijn jouw hij zij ze hem haar hun uw u in of om over
        onder tussen tot tegen na dan dus nog al dit daar hier zo zoals omdat toen geen meer veel elke alle ander andere
        werd werden geworden doen doet gaat kun kunt mogen hoef hoeft wil willen zullen ben
    """,
    "luxembourgish": """
        an ass net fir op mat dem den de déi dat eng en vun vum zu um am beim och wéi wat wien wou wéini firwat hunn
        huet hat gëtt sinn war waren kann muss ech mir dir hien si hir säin säi nach awer oder datt wann no bei aus
    """,
    "swedish": """
        vem vad när var varför vilken vilket vilka hur jag du han hon vi ni de dem sig sin sitt sina min mitt mina i om
        så under över efter utan mot hade blev blir bli skulle måste där här då nu mycket alla denna dessa de mig oss er
        din ditt dina vår vårt våra hans hennes deras får fick få kunde vill ville finns fanns bör behöver ju också bara
        sedan innan mellan vid hos genom kring inom ingen inget inga någon något några annan annat andra vart varifrån
        vems hurdan ens sådan sådant sådana varit vore göra gör gjorde är
    """,
    "danish": """
        at for hvem hvad hvornår hvor hvorfor hvilken hvilket hvilke hvordan du han hun vi i de dem sig sin sit sine
        min mit mine om under over efter uden mod havde blev bliver var være været skulle må måtte der her da nu meget
        alle denne disse dette et fra eller også kunne vil ville man hans hendes din dit dine vores jeres deres os mig
        dig ham ind ud op ned så som når end hos ved inden mellem før siden mens fordi både hver hvert nogen noget
        nogle ingen intet anden andet andre hele gør gøre gjorde får få fik findes bør skal har haft kun lige bare
        altid jo nok selv samme sådan sådanne dog vor dag hvis hvorfra hvorhen
    """,
    "norwegian": """
        for hvem hva når hvor hvorfor hvilken hvilket hvilke hvordan du han hun vi i de dem seg sin sitt sine min mitt
        mine om under over etter uten mot hadde ble blitt var skulle må måtte der her da nå mye alle denne disse dette
        et fra eller også kunne vil ville man hans hennes din ditt dine vår vårt våre deres oss meg deg ham inn ut opp
        ned så som enn hos ved innen mellom før siden mens fordi både hver hvert noen noe ingen annen annet andre hele
        gjør gjøre gjorde får få fikk finnes bør hatt kun bare alltid jo nok selv samme slik slike dog skal har
    """,
    "finnish": """
        on olen olet olemme olette ollaan kuka mikä mitä milloin missä miksi mikään kuinka monta minä sinä hän me te he
        se ne niin jos kuin vain vielä jo ennen sitten koska jossa jonka ole olla ollut olivat olisi ovatko onko saako
        saa saan saat saamme saavat voiko voi voin voit voimme voivat voinko pitää pitääkö täytyy täytyykö pitäisi
        tarvitsee tarvitseeko minun sinun hänen meidän teidän heidän minut minulle minulla meille meillä teillä sinulle
        hänelle heille itse nämä nuo tuo tässä tästä tähän siitä siinä siihen sille sillä niiden näiden niitä näitä
        jotka joita joiden johon josta jolla jolle jota kenen kenelle keneltä kenellä kenet ketkä minne mihin mistä
        mille millä minkä mitkä miten montako paljonko kauanko moneltako usein vai eli siis nyt aina koskaan kaikki
        kaikkien joku jokin jotain toinen muu muut muuta eikä enää kanssa ilman jälkeen aikana kautta yli alle noin
        mukaan varten tulee tehdä tehdään
    """,
    "polish": """
        do i w z a o u kto co kiedy gdzie dlaczego jaki jaka jakie który która ile czy ja ty on ona my wy oni go mu jej
        ich ten ta te to tego tej był była było były będzie ma mają już tylko bardzo ale więc ze we bez przed przy nad
        pod można wolno trzeba należy mogę możesz możemy mogą muszę musisz musi musimy muszą powinien powinna powinno
        powinny mieć mam mamy mi mnie nas ci sobie kogo komu kim czym czego ilu skąd dokąd którego której których którym
        którą jakiego jakiej jakich jakim jaką tych też także albo bo być jeszcze podczas
    """,
    "czech": """
        do a i v z s k o u kdo co kdy kde proč jaký jaká jaké který která kolik zda já ty on ona my vy oni ho mu jí
        jejich ten ta to té byl byla bylo byli bude má mají už jen velmi tak ve ze bez před nad pod být jsem jsi jste
        jsme mám máš máme máte mít měl měla mělo měli můžu mohu můžeš může můžeme můžete mohou mohl mohla musím musíš
        musí musíme musíte musejí smím smí smíme smějí lze jde chci chceš chce chceme chtějí budu budeme budou budete
        mě mně mi tě ti nás nám vás vám jim jich ji jej svůj své svou svého svých náš naše našeho našich můj moje mého
        váš vaše tento tato toto tyto této tomto těchto tom tím těch těm tam tady zde pak potom když pokud aby či nebo
        ani však protože také taky ještě kam odkud odkdy dokdy kterou kterého kterému kterém kterých kterým kteří jakou
        jakého jakém jakých jakým koho komu kým čeho čemu čem čím kolika mezi přes podle během kvůli kromě proti vedle
        až ke ku se si sebe by bych bychom byste není nejsou dělat udělat něco někdo nic nikdo každý každá každé
        všechno všichni všechny jestli letos prosím
    """,
    "hungarian": """
        a is de van volt lesz ki mi mit mikor hol miért melyik hány mennyi hogyan én te ő mi ti ők nekem ha már még mert
        azt ezt ami aki amely
    """,
    "turkish": """
        kim ne nerede niçin neden hangi kaç nasıl ben sen o biz siz onlar mi mı mu mü değil var yok ama ki en her şu
        bana bize miyim mıyım miyiz mıyız misin mısın lazım gerekir gerekiyor olur olabilir
    """,
    "romanian": """
        o a cine ce când unde cum cât câți câte câtă ai am are avea fost fi sunt era el ea noi voi ei lui lor să nici
        dar dacă după până prin sub fără al ale cei cele cel cea acest această aceste acești acel acea acei acestea pot
        poți poate putem puteți trebuie vreau vrea vor va vom veți aș ar fac face facem faceți eu tu îmi îți își ne vă
        mă te se mi ți li le i sa său sale săi mea meu mele mei ta tău tale nostru noastră noștri noastre vostru avem
        aveți aveam aveau eram erau ești suntem sunteți fie că ca ci deci ori iar și nu mai tot toate toți toată orice
        oricine fiecare alt altă alte alți același care cărui căror căreia cui dintre între spre către despre peste
        lângă asupra contra foarte doar numai încă deja acum atunci aici acolo unei unor unui unul niște căci fiindcă
        deoarece într dintr printr s l n m v
    """,
    "indonesian": """
        di ke siapa apa kapan mana mengapa berapa bagaimana saya kamu dia kami kita mereka akan telah sudah atau juga
        oleh karena
    """,
    "vietnamese": "ai gì khi nào đâu sao tại bao nhiêu thế tôi bạn anh chị này đó và với từ đến đã sẽ",
    "russian": """
        и в во не что он на я с со как а то все она так его но да ты к у же вы за бы по только ее мне было вот от меня
        еще нет о из ему теперь когда даже ну ли если уже или ни быть был него до вас вам ведь там потом себя ничего ей
        может они тут где есть надо ней для мы тебя их чем была сам чтоб без будто чего тоже под будет кто этот того
        потому этого какой какая какие какое этом один почти мой тем чтобы нее были куда зачем всех можно при об хоть
        после над больше тот через эти нас про них много эту перед чуть том такой им более всю между это эта сколько
        почему который которая которое которые нужно нельзя должен должна должно должны могу можем можете могут
        необходимо
    """,
    "arabic": """
        في من على إلى الى أن ان عن مع هذا هذه ذلك تلك التي الذي الذين كان كانت يكون ما ماذا متى أين كيف لماذا كم هل هو
        هي هم لا لم لن قد كل بعد قبل بين حتى ثم أو او إذا عند منذ غير أي عام يمكن يمكنني يجوز يجب ينبغي لدي لدينا
    """,
    "greek": """
        ο η το οι τα του της των τον την τους τις στο στη στην στον στα στις και είναι ήταν να δεν θα με για από που
        πως πότε πού πώς γιατί ποιος ποια ποιο ποιοι πόσο πόσα πόσοι ένα μια ένας ή αν ως όταν αυτό αυτή αυτός τι
        ποιον ποιους ποιες ποιων πόση πόσες πόσος πόσους πόσων εγώ εσύ εμείς εσείς μου σου μας σας αυτοί αυτές αυτά
        αυτόν αυτήν έναν μία μιας ενός κάθε όλα όλοι όλες όλο πολύ πιο όπως όπου ότι ούτε είτε αλλά όμως αφού πριν
        μετά μέχρι έως χωρίς κατά προς σαν μόνο ήδη πάλι εδώ εκεί έχει έχω έχεις έχουμε έχετε έχουν είχε είχαν είμαι
        είσαι είμαστε είστε πρέπει μπορώ μπορεί μπορούμε μπορείτε μπορούν κάνω κάνει κάνουμε κάνουν γίνεται μην δε όχι
        ναι κι σ απ υπάρχει υπάρχουν όσο όσοι όποιος κάποιος κάτι άραγε
    """,
    "ukrainian": """
        і й та в у на не що як з із зі до від за про по для або чи але це цей ця ці той те ті так такий така таке такі
        він вона воно вони ми ви я ти мене мені мій моя моє мої наш наша наше наші ваш ваша ваше ваші його її їх їм їй
        йому нас нам вас вам себе собі хто кого кому ким чого чому чим коли де куди звідки який яка яке які якого якої
        яких якому якій яким якою скільки якщо бо щоб же ж би б ще вже тільки лише дуже може можна можу можемо можуть
        треба потрібно слід має мають маю мати є був була було були буде будуть бути під над при через після перед між
        без також теж тут там тоді потім усі всі весь вся все кожен кожна кожне інший інша інші ні ані навіть саме сам
        сама самі
    """,
    "hindi": """
        का के की को में से पर और या एक यह वह ये वे इस उस इन उन है हैं था थी थे हो होता होती होते हुआ हुई हुए होगा होगी
        होंगे कि जो तो भी ही न नहीं ना मत ने तक लिए लिये साथ बाद पहले अगर यदि जब तब कब क्या कौन कौनसा किस किसे किसके
        किसकी किसका किसने किनके कहाँ कहां क्यों कैसे कैसा कैसी कितना कितनी कितने मैं हम आप तुम मेरा मेरी मेरे हमारा
        हमारी हमारे आपका आपकी आपके अपना अपनी अपने उसका उसकी उसके उनका उनकी उनके इसका इसकी इसके मुझे हमें कर करना करने
        करते करता करती करें किया सकता सकती सकते चाहिए जाता जाती जाते गया गई गए गयी जाए जाना रहा रही रहे दे देना लेकिन
        मगर क्योंकि कुछ कोई सब सभी बहुत यहाँ वहाँ अब फिर वाला वाली वाले जी जैसे इतना इतने इतनी पास
    """,
    "korean": """
        그 이 저 것 수 등 및 또는 그리고 그러나 하지만 그런데 그래서 또 더 잘 안 못 왜 누가 누구 누구를 누구에게
        누구인가요 누구의 누구와 무엇 무엇을 무엇이 무엇인가요 뭐 뭐가 뭐예요 뭔가요 무슨 어떤 어떻게 어느 어디 어디에
        어디서 어디에서 어디인가요 어디입니까 언제 언제까지 언제부터 언제인가요 얼마 얼마나 얼마인가요 얼마예요
        얼마입니까 몇 하나요 합니까 해야 하는 한 할 하고 하면 하려면 하기 합니다 했나요 되나요 됩니까 됩니다 되는 된
        될 있나요 있습니까 있습니다 있는 있어요 있을 없나요 없습니다 없는 입니까 입니다 인가요 이다 나는 저는 우리
        우리는 제가 내가 위해 위한 대한 대해 대해서 때 때문에 모두 다 씨 님 거 게 줄 중 후 전 가요 나요 까요 수가
        건가요 건지 뜨면
    """,
}


#: The words of ``_MARKING`` of all languages, as written.
MARKING_WORDS = frozenset(word for words in _MARKING.values() for word in words.split())
FUNCTION_WORDS_BY_LANGUAGE: Mapping[str, frozenset[str]] = {
    language: frozenset(
        INDIC_RUN_PATTERN.sub(  # stems, like the words of a text in such a script
            lambda match: " ".join(stem_indic_run(match.group())),
            fold_without_offsets(f"{_MARKING.get(language, '')} {others}"),
        ).split()
    )
    for language, others in _OTHERS.items()
}
